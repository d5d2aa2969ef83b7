CREATE TABLE "import_folders" (
	"import_id" text NOT NULL,
	"folder_id" text NOT NULL,
	"account_id" text NOT NULL,
	"remaining" integer,
	"read" integer DEFAULT 0 NOT NULL,
	"done" boolean DEFAULT false NOT NULL,
	"read_below" bigint,
	CONSTRAINT "import_folders_import_id_folder_id_pk" PRIMARY KEY("import_id","folder_id")
);
--> statement-breakpoint
CREATE TABLE "imports" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"since" timestamp (3) with time zone,
	"until" timestamp (3) with time zone,
	"folders" text[],
	"status" text DEFAULT 'queued' NOT NULL,
	"reason" text DEFAULT '' NOT NULL,
	"next_attempt_at" timestamp (3) with time zone,
	"imported" integer DEFAULT 0 NOT NULL,
	"read_before" integer DEFAULT 0 NOT NULL,
	"running_since" timestamp (3) with time zone,
	"progressed_at" timestamp (3) with time zone,
	"counts" jsonb,
	"created_at" timestamp (3) with time zone NOT NULL,
	"started_at" timestamp (3) with time zone,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "imports_status" CHECK (status in ('queued', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled'))
);
--> statement-breakpoint
CREATE INDEX "import_folders_account" ON "import_folders" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "imports_account" ON "imports" USING btree ("account_id","created_at","id");--> statement-breakpoint
CREATE INDEX "imports_unfinished" ON "imports" USING btree ("id") WHERE status in ('queued', 'running', 'waiting');