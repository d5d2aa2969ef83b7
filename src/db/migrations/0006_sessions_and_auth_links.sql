CREATE TABLE "auth_links" (
	"id" text PRIMARY KEY NOT NULL,
	"digest" "bytea" NOT NULL,
	"redirect_url" text,
	"state" text,
	"name" text,
	"account_id" text,
	"config" jsonb NOT NULL,
	"api_key_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"attempts_from" timestamp (3) with time zone,
	"busy_until" timestamp (3) with time zone,
	"used_at" timestamp (3) with time zone,
	"connected_id" text,
	CONSTRAINT "auth_links_digest_unique" UNIQUE("digest")
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"digest" "bytea" PRIMARY KEY NOT NULL,
	"api_key_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_api_key_id_api_keys_id_fk" FOREIGN KEY ("api_key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "auth_links_expires" ON "auth_links" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "sessions_api_key" ON "sessions" USING btree ("api_key_id");--> statement-breakpoint
CREATE INDEX "sessions_expires" ON "sessions" USING btree ("expires_at");