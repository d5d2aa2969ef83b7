CREATE TABLE "merging_threads" (
	"thread_id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"merged_into" text NOT NULL
);
--> statement-breakpoint
CREATE INDEX "merging_threads_account" ON "merging_threads" USING btree ("account_id","thread_id");--> statement-breakpoint
CREATE INDEX "merging_threads_into" ON "merging_threads" USING btree ("merged_into");