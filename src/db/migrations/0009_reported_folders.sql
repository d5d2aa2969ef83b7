ALTER TABLE "emails" ADD COLUMN "reported_folders" text[];--> statement-breakpoint
ALTER TABLE "locations" DROP COLUMN "pending_removal_reported";