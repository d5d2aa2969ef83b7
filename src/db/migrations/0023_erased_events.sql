DROP INDEX "events_feed";--> statement-breakpoint
DROP INDEX "events_account_feed";--> statement-breakpoint
CREATE INDEX "events_erased" ON "events" USING btree ("id","position") WHERE data = '{}';--> statement-breakpoint
CREATE INDEX "events_feed" ON "events" USING btree ("type","position","account_id","sequence") WHERE data <> '{}';--> statement-breakpoint
CREATE INDEX "events_account_feed" ON "events" USING btree ("account_id","type","position","sequence") WHERE data <> '{}';