ALTER TABLE "folders" DROP CONSTRAINT "folders_vacating";--> statement-breakpoint
ALTER TABLE "accounts" ADD COLUMN "folder_choice" jsonb;--> statement-breakpoint
ALTER TABLE "accounts" ADD COLUMN "choice_applied" boolean DEFAULT true NOT NULL;--> statement-breakpoint
ALTER TABLE "folders" ADD CONSTRAINT "folders_vacating" CHECK (vacating in ('deletion', 'noselect', 'exclusion'));