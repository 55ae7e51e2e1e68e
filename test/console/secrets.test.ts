import { randomBytes } from 'node:crypto'
import t from 'tap'
import { hashKey } from '../../src/gateway/catalog/key.ts'
import { startConsoleBench, type Visitor } from '../support/console-bench.ts'

/** Every GET there is, but for those of a single job or request. */
function paths(workspace: string): string[] {
  const below = ['', '/routes', '/models', '/providers', '/keys', '/audio-url-domains', '/webhook']
  const further = ['/webhook/deliveries', '/jobs', '/requests', '/requests?limit=200']
  return [
    'session',
    'workspaces',
    'overview',
    'audit',
    `audit?workspace=${workspace}`,
    ...[...below, ...further].map((path) => `workspaces/${workspace}${path}`),
  ]
}

t.test('a secret is told once, and never again', async (t) => {
  const { visitors, larkway, keys } = await startConsoleBench(t)
  const { admin, operator } = visitors
  const secrets = new Map<string, string>(Object.entries(keys))
  const told = async (name: string, member: string, asked: ReturnType<Visitor['ask']>) => {
    const { status, body, text } = await asked
    t.ok(status < 300, `${name}: ${status}`)
    const secret = String(body[member])
    t.equal(text.split(secret).length, 2, `${name} is told once`)
    secrets.set(name, secret)
  }
  const W = 'workspaces/acme'
  const name = 'shown'
  await told('key', 'key', admin.ask('POST', `${W}/keys`, { name, app: 'web' }))
  await told(
    'operator key',
    'key',
    operator.ask('POST', `${W}/keys`, { name, app: 'web', scopes: ['operator'] }),
  )
  await told('playground key', 'key', admin.ask('POST', `${W}/playground-key`, { app: 'web' }))
  const url = 'https://hooks.example.com/'
  await told('webhook secret', 'signing_secret', admin.ask('PUT', `${W}/webhook`, { url }))
  await told('second webhook secret', 'signing_secret', operator.ask('PUT', `${W}/webhook`, { url }))
  const credential = `sk-${randomBytes(24).toString('hex')}`
  const put = await admin.ask('PUT', `${W}/providers/acme.own`, { kind: 'openai', credential })
  t.equal(put.status, 200, put.text)
  t.notOk(put.text.includes(credential), 'what was sent is not sent back')
  secrets.set('credential', credential)

  // Also what changes them further, and what is refused.
  const answers = [
    await admin.ask('DELETE', `${W}/webhook`),
    await admin.ask('PUT', `${W}/providers/acme.own`, { kind: 'openai' }),
    await admin.ask('PUT', `${W}/providers/acme.own`, { kind: 'nonsense', credential }),
    await operator.ask('POST', `${W}/keys`, { name: keys.admin, app: 'none' }),
  ]
  const { keys: listed } = (await admin.get(`${W}/keys`)).body as {
    keys: { id: string; managed_by: string }[]
  }
  for (const { id, managed_by } of listed)
    if (managed_by === 'console') answers.push(await admin.ask('DELETE', `${W}/keys/${id}`))
  for (const visitor of [admin, operator])
    for (const path of paths('acme')) {
      const answer = await visitor.get(path)
      t.equal(answer.status, 200, path)
      answers.push(answer)
    }
  const log = JSON.stringify(larkway.log)
  for (const [name, secret] of secrets) {
    const forms = [secret, hashKey(secret), secret.slice(-20), Buffer.from(secret).toString('base64')]
    const found = (text: string) => forms.some((form) => text.includes(form))
    const again = answers.filter(({ text, headers }) => found(text) || found(JSON.stringify([...headers])))
    t.same(
      again.map(({ text }) => text),
      [],
      name,
    )
    t.notOk(found(log), `${name} is not in the log`)
  }
  t.ok(
    answers.some(({ text }) => text.includes('hooks.example.com')),
    'what was told is where the search is',
  )
})
