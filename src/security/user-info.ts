/**
 * The user and password of a URL, as `user:password`; undefined: it has none. A `%` that begins no escape (RFC 3986, 2.1), and
 * escapes that are no UTF-8, stand for themselves.
 */
export function userInfoOf({ username, password }: URL): string | undefined {
  return username === '' && password === '' ? undefined : `${decoded(username)}:${decoded(password)}`;
}

/** The URL without its user and password. */
export function withoutUserInfo(url: URL): URL {
  return Object.assign(new URL(url), { username: '', password: '' });
}

function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}
