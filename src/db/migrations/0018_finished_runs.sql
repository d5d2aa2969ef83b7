CREATE TABLE "finished_runs" (
	"run_id" text PRIMARY KEY NOT NULL,
	"finished_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE INDEX "finished_runs_at" ON "finished_runs" USING btree ("finished_at");