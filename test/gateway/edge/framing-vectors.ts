/** A request as bytes, and what comes of it. */
export type Vector = readonly [id: string, raw: string, direct: string, behindNginx?: string]

/**
 * Requests as bytes, and what the edge makes of each when it faces the client itself; after it, where that differs,
 * what comes of the same bytes behind nginx as it is deployed. `⏎` is CR LF; `G¹` and `P¹` begin a GET or POST of `/`
 * with a Host; `C¹` is `P¹` with a chunked body; `CL` and `TE` are Content-Length and Transfer-Encoding; `<a×n>` is n
 * letters, `<n hdrs>` n headers.
 *
 * - `200 n`: one request, answered, with n bytes of body; `close` when the connection was closed after it
 * - a status: that answer and a closed connection; `open` when it serves on
 * - `cut`: closed without an answer; `silent`: neither answer nor close for as long as the test looks
 * - two of these: two answers, for nginx takes what follows a whole request as the next one, as it should
 *
 * nginx 1.22 takes lone line feeds, a header without a colon and a second blank in the request line, as HTTP allows;
 * what it sends on is well-formed. The edge alone refuses the extensions of chunks, and closes a connection on
 * which a second
 * request came before the first was answered.
 */
export const VECTORS: readonly Vector[] = [
  ['ok-get', 'G¹ ⏎', '200 0'],
  ['ok-cl', 'P¹ CL: 5⏎⏎hello', '200 5'],
  ['ok-chunked', 'C¹ 5⏎hello⏎0⏎⏎', '200 5 close', '200 5'],
  ['cl+te', 'P¹ CL: 5⏎TE: chunked⏎⏎0⏎⏎', '400'],
  ['te+cl-empty', 'P¹ CL:⏎TE: chunked⏎⏎0⏎⏎', '400'],
  ['dup-cl-differ', 'P¹ CL: 5⏎CL: 0⏎⏎hello', '400'],
  ['cl-neg', 'P¹ CL: -5⏎⏎hello', '400'],
  ['cl-hex', 'P¹ CL: 0x5⏎⏎hello', '400'],
  ['cl-leadzero', 'P¹ CL: 005⏎⏎hello', '200 5'],
  ['cl-underscore', 'P¹ CL: 1_0⏎⏎hello', '400'],
  ['cl-trailing-ws', 'P¹ CL: 5 \t⏎⏎hello', '200 5', '400'],
  ['cl-inner-sp', 'P¹ CL: 5 6⏎⏎hello', '400'],
  ['cl-huge20', 'P¹ CL: 18446744073709551617⏎⏎hello', '400'],
  ['cl-huge18', 'P¹ CL: 999999999999999999⏎⏎hello', '400'],
  ['te-identity', 'P¹ TE: identity⏎⏎5⏎hello⏎0⏎⏎', '400'],
  ['te-chunked-gzip', 'P¹ TE: chunked, gzip⏎⏎0⏎⏎', '400'],
  ['te-chunked-chunked', 'P¹ TE: chunked, chunked⏎⏎0⏎⏎', '400'],
  ['te-CHUNKED', 'P¹ TE: Chunked⏎⏎5⏎hello⏎0⏎⏎', '200 5 close', '200 5'],
  ['te-dup', 'P¹ TE: chunked⏎TE: identity⏎⏎5⏎hello⏎0⏎⏎', '400'],
  ['te-spcolon', 'P¹ TE : chunked⏎⏎5⏎hello⏎0⏎⏎', '400'],
  ['te-obsfold', 'P¹ TE:⏎ chunked⏎⏎5⏎hello⏎0⏎⏎', '400'],
  ['obsfold', 'G¹ X-A: b⏎ c⏎⏎', '400'],
  ['obsfold-first', 'GET / HTTP/1.1⏎ Host: a⏎⏎', '400'],
  ['barelf-all', 'GET / HTTP/1.1\nHost: a\n\n', '505', '200 0'],
  ['barelf-header', 'GET / HTTP/1.1⏎Host: a\nX: b⏎⏎', '400', '200 0'],
  ['barelf-end', 'G¹ \n', '400', '200 0'],
  ['barecr-header', 'GET / HTTP/1.1⏎Host: a\rX: b⏎⏎', 'silent', '400'],
  ['nul-value', 'G¹ X: a\x00b⏎⏎', '400'],
  ['del-value', 'G¹ X: a\x7fb⏎⏎', '200 0'],
  ['hi-value', 'G¹ X: a\xffb⏎⏎', '200 0'],
  ['empty-name', 'G¹ : a⏎⏎', '400'],
  ['no-colon', 'G¹ Foo⏎⏎', '400', '200 0'],
  ['no-host', 'GET / HTTP/1.1⏎X: a⏎⏎', '400'],
  ['empty-host', 'GET / HTTP/1.1⏎Host:⏎⏎', '400'],
  ['dup-host', 'G¹ Host: b⏎⏎', '400'],
  ['abs-uri', 'GET http://evil/ HTTP/1.1⏎Host: a⏎⏎', '505', '200 0'],
  ['authority-form', 'CONNECT a:443 HTTP/1.1⏎Host: a:443⏎⏎', '505', '400'],
  ['http09', 'GET /⏎⏎', '505', 'cut'],
  ['http20', 'GET / HTTP/2.0⏎Host: a⏎⏎', '505', '400'],
  ['h2-preface', 'PRI * HTTP/2.0⏎⏎SM⏎⏎', '505', '400'],
  ['two-sp-ver', 'GET /  HTTP/1.1⏎Host: a⏎⏎', '505', '200 0'],
  ['lead-crlf', '⏎GET / HTTP/1.1⏎Host: a⏎⏎', 'silent', '200 0'],
  ['bad-method', 'G(T / HTTP/1.1⏎Host: a⏎⏎', '400'],
  ['empty-method', ' / HTTP/1.1⏎Host: a⏎⏎', '400'],
  ['other-method', 'BREW / HTTP/1.1⏎Host: a⏎CL: 5⏎⏎hello', '405 open'],
  ['lower-method', 'get / HTTP/1.1⏎Host: a⏎⏎', '405 open', '400'],
  ['uri-hi', 'GET /\xff\xfe HTTP/1.1⏎Host: a⏎⏎', '400', '400 open'],
  ['tls-hello', '\x16\t\r\x00\xa5\r\x00\x00\xa1\t\t', '505', '400'],
  ['ck-ext-hexlike', 'C¹ 5;a⏎hello⏎0⏎⏎', '400', '200 5'],
  ['ck-ext-small', 'C¹ 2;c⏎ab⏎0⏎⏎', '400', '200 2'],
  ['ck-ext-value', 'C¹ 2;c=d⏎ab⏎0⏎⏎', '400', '200 2'],
  ['ck-ext-second', 'C¹ 5⏎hello⏎2;c⏎ab⏎0⏎⏎', '400', '200 7'],
  ['ck-ext-last', 'C¹ 5⏎hello⏎0;a=b⏎⏎', '400', '200 5'],
  ['ck-less', 'C¹ 2<c⏎ab⏎0⏎⏎', '400'],
  ['ck-colon', 'C¹ 2:c⏎ab⏎0⏎⏎', '400'],
  ['ck-two', 'C¹ 5⏎hello⏎A⏎0123456789⏎0⏎⏎', '200 15 close', '200 15'],
  ['ck-ext-sp', 'C¹ 5 ;a=b⏎hello⏎0⏎⏎', '400', '200 5'],
  ['ck-barelf', 'C¹ 5\nhello⏎0⏎⏎', '400', '200 5'],
  ['ck-barelf-last', 'C¹ 5⏎hello⏎0\n⏎', '400', '200 5'],
  ['ck-plus', 'C¹ +5⏎hello⏎0⏎⏎', '400'],
  ['ck-g', 'C¹ g⏎0123456789abcdef⏎0⏎⏎', '400'],
  ['ck-lead-sp', 'C¹  5⏎hello⏎0⏎⏎', '400'],
  ['ck-trail-sp', 'C¹ 5 ⏎hello⏎0⏎⏎', '400', '200 5'],
  ['ck-empty-size', 'C¹ 5⏎hello⏎⏎⏎', '400'],
  ['ck-empty-size-smug', 'C¹ ⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', 'cut', '400'],
  ['ck-no-data-crlf', 'C¹ 5⏎helloXX0⏎⏎', '400'],
  ['ck-data-too-long', 'C¹ 3⏎hello⏎0⏎⏎', '400'],
  ['ck-overflow', 'C¹ 10000000000000005⏎hello⏎0⏎⏎', '400'],
  ['ck-leadzeros', 'C¹ 00000000000000000000005⏎hello⏎0⏎⏎', '200 5 close', '200 5'],
  ['ck-trailer', 'C¹ 5⏎hello⏎0⏎X-T: 1⏎⏎', '200 5 close', '200 5'],
  ['ck-last-noend', 'C¹ 5⏎hello⏎0⏎', '200 5 close', 'silent'],
  ['pipeline2-close', 'GET /1 HTTP/1.1⏎Host: a⏎Connection: close⏎⏎GET /2 HTTP/1.1⏎Host: a⏎⏎', '200 0 close'],
  ['pipeline2', 'GET /1 HTTP/1.1⏎Host: a⏎⏎GET /2 HTTP/1.1⏎Host: a⏎⏎', '200 0 close', '200 0, 200 0'],
  ['pipeline2-body', 'P¹ CL: 5⏎⏎helloGET /2 HTTP/1.1⏎Host: a⏎⏎', '200 5 close', '200 5, 200 0'],
  ['get-body', 'G¹ CL: 5⏎⏎hello', '200 5'],
  ['expect', 'P¹ Expect: 100-continue⏎CL: 5⏎⏎hello', '200 5'],
  ['expect-bad', 'P¹ Expect: 200-ok⏎CL: 5⏎⏎hello', '200 5'],
  [
    'upgrade-h2c',
    'G¹ Upgrade: h2c⏎Connection: Upgrade, HTTP2-Settings⏎HTTP2-Settings: AAMAAABkAAQAAP__⏎⏎',
    '200 0',
  ],
  ['hdr-4096', 'G¹ X: <a×4000>⏎⏎', '200 0'],
  ['hdr-4100', 'G¹ X: <a×4100>⏎⏎', '200 0'],
  ['hdr-64k', 'G¹ X: <a×65536>⏎⏎', '431', '400'],
  ['hdr-98', 'G¹ <96 hdrs>⏎⏎', '200 0'],
  ['cl-underscore-name', 'P¹ Content_Length: 5⏎⏎', '411', '411 open'],
  ['conn-Close5', 'G¹ Connection: xxxxx⏎⏎', '200 0 close', '200 0'],
  ['ck-trailer-nomethod', 'C¹ 5⏎hello⏎0⏎a: /smug HTTP/1.1⏎Host: a⏎⏎', '200 5 close', '200 5'],
  ['cl-15-digits', 'P¹ CL: 999999999999999⏎⏎hello', '413'],
  ['cl-16-digits', 'P¹ CL: 1000000000000000⏎⏎hello', '400'],
  ['cl-plus', 'P¹ CL: +5⏎⏎hello', '400'],
  ['cl-list', 'P¹ CL: 5, 5⏎⏎hello', '400'],
  ['dup-cl-same', 'P¹ CL: 5⏎CL: 5⏎⏎hello', '400'],
  ['te-empty', 'P¹ TE:⏎⏎5⏎hello⏎0⏎⏎', '400'],
  ['no-length', 'P¹ ⏎hello', '411', '411, 400'],
  ['no-length-smug', 'P¹ ⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', 'cut', '411, 200 0'],
  ['dup-cl-smug', 'P¹ CL: 5⏎CL: 0⏎⏎helloGET /smug HTTP/1.1⏎Host: a⏎⏎', '400'],
  ['cl+te-smug', 'P¹ CL: 4⏎TE: chunked⏎⏎0⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', '400'],
  ['te-identity-smug', 'P¹ TE: identity⏎⏎0⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', 'cut', '400'],
  ['te-empty-smug', 'P¹ TE:⏎⏎0⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', '400'],
  ['ck-then-smug', 'C¹ 5⏎hello⏎0⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', '200 5 close', '200 5, 200 0'],
  ['ck-get-then-smug', 'G¹ TE: chunked⏎⏎0⏎⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', '200 0 close', '200 0, 200 0'],
  ['ck-trailer-request', 'C¹ 5⏎hello⏎0⏎GET /smug HTTP/1.1⏎Host: a⏎⏎', '200 5 close', '200 5'],
  [
    'missing-path-body',
    'POST /nowhere HTTP/1.1⏎Host: a⏎CL: 36⏎⏎GET /smug HTTP/1.1⏎Host: abcdef⏎⏎',
    '404 open',
  ],
  ['odd-host', 'GET / HTTP/1.1⏎Host: a/b⏎⏎', '400'],
  ['host-at', 'GET / HTTP/1.1⏎Host: x@a⏎⏎', '400', '400 open'],
  ['host-port', 'GET / HTTP/1.1⏎Host: a.b:8080⏎⏎', '200 0'],
  ['host-v6', 'GET / HTTP/1.1⏎Host: [::1]:80⏎⏎', '200 0'],
  ['hdr-17k', 'G¹ X: <a×17000>⏎⏎', '431', '400'],
]

/** The bytes of a vector, in latin1. */
export function bytesOf(raw: string): string {
  return raw
    .replace('C¹ ', 'P¹ TE: chunked⏎⏎')
    .replace(/([GP])¹ /, (_, letter) => `${letter === 'G' ? 'GET' : 'POST'} / HTTP/1.1⏎Host: a⏎`)
    .replace(/(^|⏎)CL( ?):/g, '$1Content-Length$2:')
    .replace(/(^|⏎)TE( ?):/g, '$1Transfer-Encoding$2:')
    .replace(/<a×(\d+)>/, (_, count) => 'a'.repeat(Number(count)))
    .replace(/<(\d+) hdrs>/, (_, count) =>
      Array.from({ length: Number(count) }, (_, n) => `h${n}: v`).join('⏎'),
    )
    .replaceAll('⏎', '\r\n')
}
