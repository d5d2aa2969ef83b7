CREATE TABLE "audit_records" (
	"id" text PRIMARY KEY NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"action" text NOT NULL,
	"status" smallint NOT NULL,
	"api_key_id" text,
	"address" text NOT NULL,
	"request_id" text NOT NULL,
	"object_id" text
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "permissions" text DEFAULT 'full' NOT NULL;--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "account_ids" text[];--> statement-breakpoint
CREATE INDEX "audit_records_at" ON "audit_records" USING btree ("at","id");--> statement-breakpoint
CREATE INDEX "audit_records_action" ON "audit_records" USING btree ("action","at","id");--> statement-breakpoint
CREATE INDEX "audit_records_key" ON "audit_records" USING btree ("api_key_id","at","id");--> statement-breakpoint
CREATE INDEX "audit_records_object" ON "audit_records" USING btree ("object_id","at","id");