ALTER TABLE "workers" ADD COLUMN "started_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "workers" ADD COLUMN "watches" integer DEFAULT 0 NOT NULL;