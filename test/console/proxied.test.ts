import t from 'tap'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { startNginx } from '../support/nginx-server.ts'
import { withoutServers } from '../support/servers.ts'

// The deployed file names the node by a host of its own, and leaves the port out of `Host`.
t.test(
  'behind nginx the console knows its own origin and who sends wrong keys',
  { skip: withoutServers },
  async (t) => {
    const node = await startConsoleNode(t)
    const nginx = await startNginx(t, [node.port, node.port, node.port])
    const signIn = (key: string, headers: Readonly<Record<string, string>> = {}) =>
      fetch(`${nginx.url}/console/api/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin: nginx.url, ...headers },
        body: JSON.stringify({ key }),
      })
    const signedIn = await signIn(node.keys.admin)
    t.equal(signedIn.status, 200)
    const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';')
    t.notMatch(signedIn.headers.get('set-cookie'), /Secure/, 'of a plain connection')
    const { csrf_token } = (await signedIn.json()) as { csrf_token: string }
    const put = (origin: string) =>
      fetch(`${nginx.url}/console/api/workspaces/acme/purposes/letters`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json', 'x-lk-csrf': csrf_token, cookie, origin },
        body: '{"description":"by a proxy"}',
      })
    t.equal((await put(nginx.url)).status, 200)
    t.equal((await put(node.url)).status, 403, "of the node's own port, which is another origin")
    t.equal((await signIn(node.keys.admin, { origin: 'https://evil.example' })).status, 403)
    t.equal(
      (await signIn(node.keys.admin, { origin: node.url, 'x-forwarded-host': new URL(node.url).host }))
        .status,
      403,
    )

    const page = await fetch(`${nginx.url}/console/acme/keys`)
    t.match(page.headers.get('content-security-policy'), /frame-ancestors 'none'/)
    for (let index = 0; index < 10; index++)
      t.equal((await signIn(makeKey(), { 'x-forwarded-for': `203.0.113.${index}` })).status, 401)
    t.equal(
      (await signIn(makeKey(), { 'x-forwarded-for': '203.0.113.99' })).status,
      429,
      'what the caller says of itself does not count',
    )
  },
)
