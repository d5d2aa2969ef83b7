ALTER TABLE "emails" ADD COLUMN "list" jsonb;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "forwarded_id" text;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "forwarded_id" text;--> statement-breakpoint
CREATE INDEX "emails_of_list" ON "emails" USING btree ("account_id",(list ->> 'id'),"date","id") WHERE list is not null;