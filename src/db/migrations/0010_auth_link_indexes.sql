CREATE INDEX "auth_links_created" ON "auth_links" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "auth_links_open" ON "auth_links" USING btree ("created_at","id") WHERE "auth_links"."used_at" is null;--> statement-breakpoint
CREATE INDEX "auth_links_account" ON "auth_links" USING btree ("account_id") WHERE "auth_links"."account_id" is not null;--> statement-breakpoint
CREATE INDEX "auth_links_connected" ON "auth_links" USING btree ("connected_id") WHERE "auth_links"."connected_id" is not null;