CREATE TABLE "device_sign_ins" (
	"id" text PRIMARY KEY NOT NULL,
	"app_id" text NOT NULL,
	"request" "bytea" NOT NULL,
	"intent_id" text,
	"account_id" text,
	"failure" text DEFAULT '' NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "device_sign_ins_expires" ON "device_sign_ins" USING btree ("expires_at");