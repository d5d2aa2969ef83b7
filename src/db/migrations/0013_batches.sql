CREATE TABLE "batch_items" (
	"batch_id" text NOT NULL,
	"position" integer NOT NULL,
	"account_id" text NOT NULL,
	"email_id" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"error_code" text,
	"error_detail" text,
	CONSTRAINT "batch_items_batch_id_position_pk" PRIMARY KEY("batch_id","position"),
	CONSTRAINT "batch_items_status" CHECK (status in ('pending', 'changed', 'failed'))
);
--> statement-breakpoint
CREATE TABLE "batches" (
	"id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"change" jsonb NOT NULL,
	"status" text DEFAULT 'running' NOT NULL,
	"total" integer NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "batches_status" CHECK (status in ('running', 'completed'))
);
--> statement-breakpoint
CREATE INDEX "batch_items_pending" ON "batch_items" USING btree ("batch_id","position") WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX "batch_items_account" ON "batch_items" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "batches_account" ON "batches" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "batches_created" ON "batches" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "batches_running" ON "batches" USING btree ("id") WHERE status = 'running';