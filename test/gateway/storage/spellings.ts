/** How a client may write base64: each takes canonical text and returns the text of the JSON string. */
export const SPELLINGS: Readonly<Record<string, (text: string) => string>> = {
  canonical: (text) => text,
  unpadded: (text) => text.replace(/=+$/, ''),
  'slashes escaped': (text) => text.replaceAll('/', '\\/'),
  'line breaks escaped': (text) => text.replace(/.{76}/g, '$&\\r\\n'),
  'raw white space': (text) => text.replace(/.{19}/g, '$& \n\t'),
  'url-safe': (text) => text.replaceAll('+', '-').replaceAll('/', '_'),
  'unicode escapes': (text) => text.replaceAll('/', '\\u002f').replaceAll('=', '\\u003D'),
}
