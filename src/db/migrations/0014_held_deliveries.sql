DROP INDEX "deliveries_unclaimed";--> statement-breakpoint
DROP INDEX "deliveries_forced";--> statement-breakpoint
DROP INDEX "deliveries_replay";--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "held" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "deliveries_held" ON "deliveries" USING btree ("endpoint_id","object_id","sequence") WHERE held and status = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_unclaimed" ON "deliveries" USING btree ("endpoint_id",((replay_id is not null)::int),"next_attempt_at" NULLS FIRST,"id") WHERE status = 'pending' and workflow_id is null and not held;--> statement-breakpoint
CREATE INDEX "deliveries_forced" ON "deliveries" USING btree ("endpoint_id","id") WHERE forced and status = 'pending' and workflow_id is null and not held;--> statement-breakpoint
CREATE INDEX "deliveries_replay" ON "deliveries" USING btree ("replay_id","status","held") WHERE replay_id is not null;--> statement-breakpoint
-- The end of a delivery lets the next one of its object go on that is marked as held, see src/webhooks/claim-objects.ts.
-- It is volatile: each statement in it sees what was committed before. One that somebody else changes meanwhile is asked again.
CREATE FUNCTION "let_next_delivery_go"() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	next_sequence bigint;
BEGIN
	LOOP
		SELECT sequence INTO next_sequence FROM deliveries
			WHERE held AND status = 'pending' AND endpoint_id = OLD.endpoint_id AND object_id = OLD.object_id
				AND sequence > OLD.sequence
			ORDER BY sequence LIMIT 1;
		EXIT WHEN NOT FOUND;
		UPDATE deliveries SET held = false
			WHERE held AND status = 'pending' AND endpoint_id = OLD.endpoint_id AND object_id = OLD.object_id
				AND sequence = next_sequence;
		EXIT WHEN FOUND;
	END LOOP;
	RETURN NULL;
END
$$;--> statement-breakpoint
CREATE TRIGGER "deliveries_ended" AFTER UPDATE OF "status" ON "deliveries" FOR EACH ROW
	WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION "let_next_delivery_go"();--> statement-breakpoint
CREATE TRIGGER "deliveries_deleted" AFTER DELETE ON "deliveries" FOR EACH ROW
	WHEN (OLD.status = 'pending') EXECUTE FUNCTION "let_next_delivery_go"();
