ALTER TABLE "accounts" ADD COLUMN "authserv_id" text;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "list" jsonb;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "authentication" jsonb;--> statement-breakpoint
ALTER TABLE "drafts" ADD COLUMN "forwarded_id" text;--> statement-breakpoint
ALTER TABLE "sends" ADD COLUMN "forwarded_id" text;--> statement-breakpoint
CREATE INDEX "emails_unaligned" ON "emails" USING btree ("account_id","date","id") WHERE authentication ->> 'from_aligned' = 'false';--> statement-breakpoint
CREATE INDEX "emails_of_list" ON "emails" USING btree ("account_id",(list ->> 'id'),"date","id") WHERE list is not null;