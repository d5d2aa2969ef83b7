CREATE TABLE "events_to_erase" (
	"event_id" text PRIMARY KEY NOT NULL
);
