ALTER TABLE "email_contents" ADD COLUMN "body_new" json;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "complaint" jsonb;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "auto_reply" text;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "calendar" jsonb;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "is_complete" boolean DEFAULT true NOT NULL;--> statement-breakpoint
CREATE INDEX "emails_incomplete" ON "emails" USING btree ("account_id","id") WHERE not is_complete;--> statement-breakpoint
-- As body_plain, of which it is a part.
DO $$
BEGIN
	ALTER TABLE "email_contents" ALTER COLUMN "body_new" SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
	ALTER TABLE "email_contents" ALTER COLUMN "body_new" SET STORAGE EXTERNAL;
END $$;
