ALTER TABLE "accounts" ADD COLUMN "data_key" "bytea";--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "account_id" text;--> statement-breakpoint
CREATE INDEX "idempotency_keys_account" ON "idempotency_keys" USING btree ("account_id") WHERE account_id is not null;