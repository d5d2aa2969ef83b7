CREATE TABLE "oauth_apps" (
	"id" text PRIMARY KEY NOT NULL,
	"provider" text NOT NULL,
	"name" text NOT NULL,
	"client_id" text NOT NULL,
	"secrets" "bytea" NOT NULL,
	"settings" jsonb NOT NULL,
	"failure" text DEFAULT '' NOT NULL,
	"failing_since" timestamp (3) with time zone,
	"probe_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "oauth_sign_ins" (
	"id" text PRIMARY KEY NOT NULL,
	"link_id" text NOT NULL,
	"app_id" text NOT NULL,
	"request" "bytea" NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "oauth_tokens" (
	"account_id" text PRIMARY KEY NOT NULL,
	"app_id" text,
	"tokens" "bytea" NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"renew_at" timestamp (3) with time zone,
	"retry_at" timestamp (3) with time zone,
	"fault" text DEFAULT '' NOT NULL,
	"failure" text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE INDEX "oauth_sign_ins_expires" ON "oauth_sign_ins" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "oauth_tokens_app" ON "oauth_tokens" USING btree ("app_id") WHERE "oauth_tokens"."app_id" is not null;