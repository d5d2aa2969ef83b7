CREATE TABLE "uploads" (
	"id" text PRIMARY KEY NOT NULL,
	"api_key_id" text NOT NULL,
	"filename" text,
	"content_type" text,
	"size" bigint NOT NULL,
	"received" bigint DEFAULT 0 NOT NULL,
	"parts" text[] DEFAULT '{}' NOT NULL,
	"data_key" "bytea",
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "uploads_received" CHECK (received <= size)
);
--> statement-breakpoint
CREATE INDEX "uploads_api_key" ON "uploads" USING btree ("api_key_id");--> statement-breakpoint
CREATE INDEX "uploads_expires" ON "uploads" USING btree ("expires_at");