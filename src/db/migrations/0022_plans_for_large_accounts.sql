-- A plan that is kept for any account is made for an average one: among small ones, it searched all texts of a large one.
-- With one distinct value Postgres takes the largest account for the average.
ALTER TABLE "emails" ALTER COLUMN "account_id" SET (n_distinct = 1);--> statement-breakpoint
ALTER TABLE "email_search" ALTER COLUMN "account_id" SET (n_distinct = 1);--> statement-breakpoint
ANALYZE "emails" ("account_id");--> statement-breakpoint
ANALYZE "email_search" ("account_id");
