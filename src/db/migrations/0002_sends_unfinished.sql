DROP INDEX "sends_unsent";--> statement-breakpoint
CREATE INDEX "sends_unfinished" ON "sends" USING btree ("updated_at") WHERE state <> 'sent' or storage_key is not null or input_key is not null;