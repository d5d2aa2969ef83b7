ALTER TABLE "email_contents" ADD COLUMN "head" text;--> statement-breakpoint
-- As the other columns of text: see the first migration.
DO $$
BEGIN
	ALTER TABLE "email_contents" ALTER COLUMN "head" SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
	ALTER TABLE "email_contents" ALTER COLUMN "head" SET STORAGE EXTERNAL;
END $$;
--> statement-breakpoint
-- Searches are planned once, for any account: for one that has a twentieth of all mail, however many small ones there are. A
-- large one planned as a small one would be read mail by mail.
ALTER TABLE "email_search" ALTER COLUMN "account_id" SET (n_distinct = 20);
