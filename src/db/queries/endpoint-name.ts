/** SQL: the URL of a row of `webhook_endpoints`, without a user and password. */
export const PUBLIC_URL = `regexp_replace(url, '^([^:]+:[/\\\\]*)[^/?#]*@', '\\1')`;

/** SQL: what a row of `webhook_endpoints` is called: its description, or its URL without a user and password. */
export const ENDPOINT_NAME = `coalesce(nullif(description, ''), ${PUBLIC_URL})`;
