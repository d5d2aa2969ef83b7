ALTER TABLE "sends" ADD COLUMN "copy_ingested_at" timestamp (3) with time zone;--> statement-breakpoint
UPDATE "sends" SET "copy_ingested_at" = "updated_at" WHERE EXISTS (SELECT FROM "emails" e WHERE e."id" = "sends"."id");
