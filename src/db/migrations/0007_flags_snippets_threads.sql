CREATE TABLE "thread_summaries" (
	"thread_id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"last_date" timestamp (3) with time zone NOT NULL,
	"last_email_id" text NOT NULL,
	"emails" integer NOT NULL,
	"unread" integer NOT NULL,
	"starred" integer NOT NULL,
	"with_attachments" integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE "email_contents" ADD COLUMN "snippet" json;--> statement-breakpoint
ALTER TABLE "emails" ADD COLUMN "flags" text[];--> statement-breakpoint
ALTER TABLE "folders" ADD COLUMN "flags_read" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "locations" ADD COLUMN "flags" text[];--> statement-breakpoint
CREATE INDEX "thread_summaries_list" ON "thread_summaries" USING btree ("account_id","last_date","thread_id");--> statement-breakpoint
CREATE INDEX "thread_summaries_unread" ON "thread_summaries" USING btree ("account_id","last_date","thread_id") WHERE unread > 0;--> statement-breakpoint
CREATE INDEX "emails_starred" ON "emails" USING btree ("account_id","date","id") WHERE flags @> array['\flagged'];--> statement-breakpoint
CREATE INDEX "emails_flags" ON "emails" USING gin ("account_id","flags") WHERE flags <> '{}';--> statement-breakpoint
-- The list of threads is kept here, in the transactions of all that change emails: whichever version of the product does.
-- Applies changes of threads, each {thread_id, account_id, last_date, last_email_id, emails, unread, starred,
-- with_attachments, moved}: what to add to the counts, one of the emails, and whether the last email may be another one.
CREATE FUNCTION "change_thread_summaries"("changes" jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO thread_summaries AS t
			(thread_id, account_id, last_date, last_email_id, emails, unread, starred, with_attachments)
		SELECT d.thread_id, d.account_id, d.last_date, d.last_email_id, d.emails, d.unread, d.starred, d.with_attachments
		FROM jsonb_populate_recordset(null::thread_summaries, changes) d
		-- without a summary there is nothing to take from: the account is being removed
		WHERE d.emails > 0 OR EXISTS (SELECT FROM thread_summaries o WHERE o.thread_id = d.thread_id)
		ORDER BY d.thread_id
		ON CONFLICT (thread_id) DO UPDATE SET
			emails = t.emails + excluded.emails, unread = t.unread + excluded.unread,
			starred = t.starred + excluded.starred, with_attachments = t.with_attachments + excluded.with_attachments,
			last_date = CASE WHEN excluded.emails > 0 AND (excluded.last_date, excluded.last_email_id) > (t.last_date, t.last_email_id)
				THEN excluded.last_date ELSE t.last_date END,
			last_email_id = CASE WHEN excluded.emails > 0 AND (excluded.last_date, excluded.last_email_id) > (t.last_date, t.last_email_id)
				THEN excluded.last_email_id ELSE t.last_email_id END;
	UPDATE thread_summaries t SET last_date = l.date, last_email_id = l.id
		FROM jsonb_to_recordset(changes) AS d(thread_id text, moved boolean)
		CROSS JOIN LATERAL (
			SELECT e.date, e.id FROM (
				SELECT d.thread_id AS id
				UNION ALL SELECT m.thread_id FROM merging_threads m WHERE m.merged_into = d.thread_id
			) s CROSS JOIN LATERAL (
				SELECT e.date, e.id FROM emails e WHERE e.thread_id = s.id AND NOT e.is_draft
				ORDER BY e.date DESC, e.id DESC LIMIT 1
			) e ORDER BY e.date DESC, e.id DESC LIMIT 1
		) l
		WHERE d.moved AND t.thread_id = d.thread_id;
	DELETE FROM thread_summaries t USING jsonb_to_recordset(changes) AS d(thread_id text)
		WHERE t.thread_id = d.thread_id AND t.emails <= 0;
END
$$;--> statement-breakpoint
CREATE FUNCTION "keep_thread_summaries"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	changes jsonb;
BEGIN
	IF TG_OP = 'INSERT' THEN
		SELECT jsonb_agg(d) INTO changes FROM (
			SELECT coalesce(m.merged_into, n.thread_id) AS thread_id, n.account_id,
				(array_agg(n.date ORDER BY n.date DESC, n.id DESC))[1] AS last_date,
				(array_agg(n.id ORDER BY n.date DESC, n.id DESC))[1] AS last_email_id,
				count(*) AS emails, count(*) FILTER (WHERE n.is_unread) AS unread,
				count(*) FILTER (WHERE n.flags @> array['\flagged']) AS starred,
				count(*) FILTER (WHERE n.has_attachments) AS with_attachments, false AS moved
			FROM new_emails n LEFT JOIN merging_threads m ON m.thread_id = n.thread_id
			WHERE NOT n.is_draft GROUP BY 1, 2
		) d;
	ELSIF TG_OP = 'DELETE' THEN
		SELECT jsonb_agg(d) INTO changes FROM (
			SELECT coalesce(m.merged_into, o.thread_id) AS thread_id, o.account_id, min(o.date) AS last_date,
				min(o.id) AS last_email_id, -count(*) AS emails, -count(*) FILTER (WHERE o.is_unread) AS unread,
				-count(*) FILTER (WHERE o.flags @> array['\flagged']) AS starred,
				-count(*) FILTER (WHERE o.has_attachments) AS with_attachments, true AS moved
			FROM old_emails o LEFT JOIN merging_threads m ON m.thread_id = o.thread_id
			WHERE NOT o.is_draft GROUP BY 1, 2
		) d;
	ELSE
		SELECT jsonb_agg(d) INTO changes FROM (
			SELECT thread_id, account_id, max(date) AS last_date, (array_agg(id ORDER BY by DESC, date DESC, id DESC))[1] AS last_email_id,
				sum(by) AS emails, sum(unread::int * by) AS unread, sum(starred::int * by) AS starred,
				sum(has_attachments::int * by) AS with_attachments, bool_or(moved) AS moved
			FROM (
				SELECT v.by, v.id, v.account_id, v.date, v.unread, v.has_attachments, v.starred,
					coalesce(m.merged_into, v.thread_id) AS thread_id,
					(o.thread_id, o.date, o.is_draft) IS DISTINCT FROM (n.thread_id, n.date, n.is_draft) AS moved
				FROM old_emails o JOIN new_emails n ON n.id = o.id
				CROSS JOIN LATERAL (VALUES
					(-1, o.id, o.account_id, o.date, o.is_unread, o.has_attachments, coalesce(o.flags @> array['\flagged'], false), o.thread_id, o.is_draft),
					(1, n.id, n.account_id, n.date, n.is_unread, n.has_attachments, coalesce(n.flags @> array['\flagged'], false), n.thread_id, n.is_draft)
				) v (by, id, account_id, date, unread, has_attachments, starred, thread_id, is_draft)
				LEFT JOIN merging_threads m ON m.thread_id = v.thread_id
				WHERE NOT v.is_draft
					AND (o.thread_id, o.date, o.is_draft, o.is_unread, o.has_attachments, coalesce(o.flags @> array['\flagged'], false))
						IS DISTINCT FROM (n.thread_id, n.date, n.is_draft, n.is_unread, n.has_attachments, coalesce(n.flags @> array['\flagged'], false))
			) v GROUP BY 1, 2
		) d WHERE d.moved OR (d.emails, d.unread, d.starred, d.with_attachments) <> (0, 0, 0, 0);
	END IF;
	IF changes IS NOT NULL THEN PERFORM change_thread_summaries(changes); END IF;
	RETURN NULL;
END
$$;--> statement-breakpoint
-- A thread that becomes part of another: its emails are counted there from now on, before their rows name it.
CREATE FUNCTION "merge_thread_summaries"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	changes jsonb;
BEGIN
	WITH merged AS (DELETE FROM thread_summaries t WHERE t.thread_id = NEW.thread_id RETURNING t.*)
	SELECT jsonb_agg(to_jsonb(merged) || jsonb_build_object('thread_id', NEW.merged_into, 'moved', true)) INTO changes FROM merged;
	IF changes IS NOT NULL THEN PERFORM change_thread_summaries(changes); END IF;
	RETURN NULL;
END
$$;--> statement-breakpoint
CREATE TRIGGER "emails_inserted" AFTER INSERT ON "emails" REFERENCING NEW TABLE AS new_emails
	FOR EACH STATEMENT EXECUTE FUNCTION "keep_thread_summaries"();--> statement-breakpoint
CREATE TRIGGER "emails_deleted" AFTER DELETE ON "emails" REFERENCING OLD TABLE AS old_emails
	FOR EACH STATEMENT EXECUTE FUNCTION "keep_thread_summaries"();--> statement-breakpoint
CREATE TRIGGER "emails_updated" AFTER UPDATE ON "emails" REFERENCING OLD TABLE AS old_emails NEW TABLE AS new_emails
	FOR EACH STATEMENT EXECUTE FUNCTION "keep_thread_summaries"();--> statement-breakpoint
CREATE TRIGGER "threads_merged" AFTER INSERT ON "merging_threads"
	FOR EACH ROW EXECUTE FUNCTION "merge_thread_summaries"();--> statement-breakpoint
-- the triggers hold off writers of emails until this has ended
INSERT INTO "thread_summaries" (thread_id, account_id, last_date, last_email_id, emails, unread, starred, with_attachments)
SELECT coalesce(m.merged_into, e.thread_id), e.account_id, max(e.date),
	(array_agg(e.id ORDER BY e.date DESC, e.id DESC))[1], count(*), count(*) FILTER (WHERE e.is_unread), 0,
	count(*) FILTER (WHERE e.has_attachments)
FROM "emails" e LEFT JOIN "merging_threads" m ON m.thread_id = e.thread_id WHERE NOT e.is_draft GROUP BY 1, 2;
