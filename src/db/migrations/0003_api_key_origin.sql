ALTER TABLE "api_keys" ADD COLUMN "created_by" text;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_digest_unique" UNIQUE("digest");--> statement-breakpoint
UPDATE "api_keys" SET "prefix" = 'boot_' || substr(md5(random()::text), 1, 12) WHERE "prefix" LIKE 'boot\_%';
