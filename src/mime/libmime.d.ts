/** The part of libmime that is used here; the package has no types of its own. */
declare module 'libmime' {
  const libmime: {
    /** a structured header value with its parameters, RFC 2231 decoded */
    parseHeaderValue(text: string): { value: string; params: Record<string, string> };
    /** file name ending for a media type, `bin` when unknown */
    detectExtension(mime: string): string;
    /** media type for a file name ending */
    detectMimeType(extension: string): string;
  };
  export default libmime;
}

declare module 'libmime/lib/charset.js' {
  const charset: {
    decode(bytes: Buffer, charset: string): string;
    normalizeCharset(charset: string): string;
  };
  export default charset;
}
