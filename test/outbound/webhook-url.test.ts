import t from 'tap'
import { judgeWebhookUrl } from '../../src/outbound/remote-url.ts'

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
