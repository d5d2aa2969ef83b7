CREATE TABLE "folder_claims" (
	"account_id" text NOT NULL,
	"path" text NOT NULL,
	"folder_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "folder_claims_account_id_path_pk" PRIMARY KEY("account_id","path")
);
