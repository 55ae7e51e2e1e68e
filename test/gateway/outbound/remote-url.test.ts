import { isIP } from 'node:net'
import t from 'tap'
import { judgeRedirect, judgeUrl } from '../../../src/gateway/outbound/remote-url.ts'
import { Dice } from '../../support/dice.ts'
import { ALLOWED_URLS, DOMAINS, LONGEST, REFUSED_URLS, shown } from '../../support/guard-urls.ts'

t.test('URLs that may be fetched from', async (t) => {
  for (const [text, href] of ALLOWED_URLS) {
    const judged = judgeUrl(text, DOMAINS)
    if ('rejected' in judged) t.fail(`${text} is refused: ${judged.rejected}`)
    else t.same([judged.url.href, judged.host], [href, new URL(href).hostname], text)
  }
})

for (const [reason, texts] of Object.entries(REFUSED_URLS)) {
  t.test(`URLs refused for ${reason}`, async (t) => {
    for (const text of texts) t.same(judgeUrl(text, DOMAINS), { rejected: reason }, shown(text))
  })
}

t.test('nothing is allowed by an empty list', async (t) => {
  t.same(judgeUrl('https://good.example/', []), { rejected: 'host_not_allowed' })
})

const FROM = new URL('https://good.example/a/b.mp3?c=1#d')

t.test('redirects to hosts on the list', async (t) => {
  const targets: readonly (readonly [location: string, href: string])[] = [
    ['c.mp3', 'https://good.example/a/c.mp3'],
    ['/c.mp3', 'https://good.example/c.mp3'],
    ['?d=2', 'https://good.example/a/b.mp3?d=2'],
    ['//a.wide.example/x', 'https://a.wide.example/x'],
    ['https://a.wide.example/x', 'https://a.wide.example/x'],
    ['HTTPS://good.example:443/x', 'https://good.example/x'],
    ['https:c.mp3', 'https://good.example/a/c.mp3'],
  ]
  for (const [location, href] of targets) {
    const judged = judgeRedirect(location, FROM, DOMAINS)
    t.equal('url' in judged ? judged.url.href : judged.rejected, href, location)
  }
})

t.test('redirects that are not followed', async (t) => {
  const locations = [
    ...['https://169.254.169.254/', 'http://good.example/', 'http:c.mp3', 'https://other.example/'],
    ...['//other.example/', '///other.example/', '//[::1]/x', '//127.1/', '//localhost/', '//good.example.'],
    ...['//user@good.example/', '//good.example:22/', 'file:///etc/passwd', 'data:audio/wav;base64,AA', ''],
    ...['\\\\other.example/', '/\\other.example/', '/\\good.example/', '/a\\b', '/a b', '\t//other.example/'],
    ...['/\t/other.example/', '/a\r\nSet-Cookie: a=b', '/ä', '//①②⑦.1/'],
    `/${'a'.repeat(LONGEST)}`,
    `/${'a'.repeat(LONGEST - 1)}`,
  ]
  for (const location of locations)
    t.same(judgeRedirect(location, FROM, DOMAINS), { rejected: 'redirect_rejected' }, shown(location))
})

const PARTS = [
  ...[
    ...['https://', 'https://', 'HTTPS://', 'http://', 'https:', '//', '/', '\\', '?', '#', '@', ':', '.'],
    ...['..', '%', '%2e'],
  ],
  ...[
    ...['good.example', 'good.example', 'wide.example', 'a.', '*.', 'xn--', 'bcher-kva.example', 'evil.test'],
    'localhost',
  ],
  ...[
    ...['127.0.0.1', '127.1', '0x7f', '2130706433', '[::1]', '::ffff:', ':443', ':22', 'user:pw@', '[', ']'],
    ...['%00', '%25'],
  ],
  ...[
    ...['\t', '\n', ' ', '\0', '。', '①', 'ⓛ', 'ſ', 'ä', '\u00ad', '\ud800', '"', '|', '^', '`', '{}'],
    'metadata.google.internal',
  ],
]

/** Half of them begin as a URL on the list does. */
function drawText(dice: Dice): string {
  const parts = Array.from({ length: 1 + dice.below(6) }, () => dice.one(PARTS))
  const begun = dice.one([
    'https://',
    'https://good.example',
    'https://a.wide.example',
    'https://a.wide.example/',
  ])
  return (dice.chance(0.8) ? begun : '') + parts.join('')
}

t.test('what is allowed is on the list, is no address, and is allowed again as the same', async (t) => {
  const dice = new Dice(443)
  let allowed = 0
  for (let round = 0; round < 50_000; round++) {
    const text = drawText(dice)
    const redirected = dice.chance(0.5)
    const judged = redirected ? judgeRedirect(text, FROM, DOMAINS) : judgeUrl(text, DOMAINS)
    if ('rejected' in judged) continue
    allowed++
    const { url, host } = judged
    const sound =
      url.protocol === 'https:' &&
      url.port === '' &&
      url.username + url.password === '' &&
      url.hostname === host &&
      isIP(host) === 0 &&
      (host === 'good.example' ||
        host === 'xn--bcher-kva.example' ||
        /^[a-z0-9.-]+\.wide\.example$/.test(host)) &&
      /^[\x21-\x7e]{1,2048}$/.test(url.href)
    const again = judgeUrl(url.href, DOMAINS)
    const same = 'url' in again && again.url.href === url.href && again.host === host
    if (!sound || !same) t.fail(`${shown(text)} is allowed as ${url.href}, sound ${sound}, same ${same}`)
  }
  t.ok(allowed > 2000, `${allowed} were allowed`)
})
