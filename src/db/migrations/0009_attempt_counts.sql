CREATE TABLE "attempt_counts" (
	"minute" timestamp (3) with time zone NOT NULL,
	"endpoint_id" text NOT NULL,
	"succeeded" integer NOT NULL,
	"failed" integer NOT NULL,
	CONSTRAINT "attempt_counts_minute_endpoint_id_pk" PRIMARY KEY("minute","endpoint_id")
);
--> statement-breakpoint
CREATE INDEX "deliveries_failed_last" ON "deliveries" USING btree ("created_at","id") WHERE error_kind is not null;