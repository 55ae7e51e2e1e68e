import t from 'tap'
import { judgeCallbackUrl, judgeWebhookUrl } from '../../../src/gateway/outbound/remote-url.ts'
import { shown, URLS_OF_HOOKS, URLS_REFUSED_TO_HOOKS } from '../../support/guard-urls.ts'

t.test('where a URL leads to', async (t) => {
  const rows: readonly [text: string, host: string, port: number, local?: boolean][] = [
    ['https://hooks.example/a?b', 'hooks.example', 443],
    ['https://hooks.example:8443', 'hooks.example', 8443],
    ['https://hooks.example:443/', 'hooks.example', 443],
    ['https://hooks.example:80/', 'hooks.example', 80],
    ['https://hooks.example:0/', 'hooks.example', 0],
    ['https://Bücher.example/', 'xn--bcher-kva.example', 443],
    ['https://8.8.8.8/', '8.8.8.8', 443],
    ['https://[2606:4700:4700::1111]:444/', '2606:4700:4700::1111', 444],
    ['http://localhost', 'localhost', 80, true],
    ['http://127.0.0.1:3000/', '127.0.0.1', 3000, true],
    ['http://127.1/', '127.0.0.1', 80, true],
  ]
  for (const [text, host, port, local = false] of rows) {
    t.match(judgeWebhookUrl(text, true), { host, port, local, url: URL }, text)
    t.equal('issue' in judgeWebhookUrl(text, false), local, `${text}, without the switch`)
  }
})

t.test('names that mean something else in every network', async (t) => {
  const names = [
    ...['localhost', 'a.localhost', 'printer.local', 'box.localdomain', 'router.home.arpa', 'hooks'],
    ...['metadata.google.internal', 'a.b.internal', '1.0.0.127.in-addr.arpa'],
  ]
  for (const name of names)
    t.same(judgeWebhookUrl(`https://${name}/`, true), { issue: 'must have a public host' }, name)
  for (const name of ['local.example', 'internal.example', 'mylocalhost.example', 'arpa.example'])
    t.notOk('issue' in judgeWebhookUrl(`https://${name}/`, false), name)
})

t.test('a callback may have credentials, and nothing else that a webhook may not have', async (t) => {
  for (const text of Object.keys(URLS_OF_HOOKS)) {
    const webhook = judgeWebhookUrl(text, false)
    const judged = judgeCallbackUrl(text, false)
    t.same(judged, { url: 'url' in webhook ? webhook.url.href : '', authorization: null }, shown(text))
  }
  const refused = URLS_REFUSED_TO_HOOKS.filter((text) => {
    const webhook = judgeWebhookUrl(text, false)
    return !('issue' in webhook && webhook.issue === 'must not have credentials')
  })
  t.ok(refused.length > 100, `${refused.length} URLs`)
  for (const text of refused) t.match(judgeCallbackUrl(text, false), { issue: /^must / }, shown(text))
  for (const [userinfo, plain] of [
    ['lark:song', 'lark:song'],
    ['lark', 'lark:'],
    [':song', ':song'],
    ['l%40rk:s%3Ang%C3%A4', 'l@rk:s:ngä'],
    ['a:b:c', 'a:b:c'],
  ] as const) {
    const authorization = `Basic ${Buffer.from(plain).toString('base64')}`
    const judged = judgeCallbackUrl(`https://${userinfo}@hooks.example/a?b=c`, false)
    t.same(judged, { url: 'https://hooks.example/a?b=c', authorization }, userinfo)
  }
  t.match(judgeCallbackUrl('https://%ff@hooks.example/', false), { issue: /credentials/ })
  for (const host of ['127.0.0.1', '[::1]', 'localhost', '169.254.169.254', 'hooks'])
    t.match(judgeCallbackUrl(`https://lark:song@${host}/`, false), { issue: /public host/ }, host)
})
