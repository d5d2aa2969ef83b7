ALTER TABLE "email_contents" ADD COLUMN "head" text;--> statement-breakpoint
-- As the other columns of text: see the first migration.
DO $$
BEGIN
	ALTER TABLE "email_contents" ALTER COLUMN "head" SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
	ALTER TABLE "email_contents" ALTER COLUMN "head" SET STORAGE EXTERNAL;
END $$;
