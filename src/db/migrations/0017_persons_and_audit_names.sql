CREATE TABLE "persons" (
	"id" text PRIMARY KEY NOT NULL,
	"issuer" text NOT NULL,
	"subject" text NOT NULL,
	"name" text NOT NULL,
	"email" text,
	"signed_in_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "audit_records" ADD COLUMN "actor_name" text;--> statement-breakpoint
ALTER TABLE "audit_records" ADD COLUMN "object_name" text;--> statement-breakpoint
ALTER TABLE "persons" ADD CONSTRAINT "persons_id_api_keys_id_fk" FOREIGN KEY ("id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "persons_subject" ON "persons" USING btree ("issuer","subject");