CREATE TABLE "invited_persons" (
	"id" text PRIMARY KEY NOT NULL,
	"login" text NOT NULL,
	"password" text,
	"link_digest" "bytea",
	"link_expires_at" timestamp (3) with time zone,
	CONSTRAINT "invited_persons_login_unique" UNIQUE("login"),
	CONSTRAINT "invited_persons_link_digest_unique" UNIQUE("link_digest")
);
--> statement-breakpoint
ALTER TABLE "persons" ALTER COLUMN "issuer" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "persons" ALTER COLUMN "subject" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "persons" ALTER COLUMN "signed_in_at" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "invited_persons" ADD CONSTRAINT "invited_persons_id_persons_id_fk" FOREIGN KEY ("id") REFERENCES "public"."persons"("id") ON DELETE cascade ON UPDATE no action;