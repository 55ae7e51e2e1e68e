import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { STORES, startConsoleBench, type Told, type Visitor } from '../support/console-bench.ts'
import { consoleEndpoints } from '../support/console-endpoints.ts'
import { waitUntil } from '../support/wait-until.ts'

const AWAY = { status: 503, body: { error: { code: 'DEPENDENCY_UNAVAILABLE' } } }

/** Names that are there, so that nothing is refused for what it asks about. */
const NAMES: Readonly<Record<string, string>> = { ':workspace': 'acme', ':app': 'web', ':route': 'acme' }
const isBack = (visitor: Visitor) =>
  waitUntil(async () => (await visitor.get('session')).status === 200, 30_000)

const [, redisOptions] = STORES[1] ?? ['redis', { skip: 'no stores' }]

t.test(
  'while Redis does not answer, no call of the console does anything but say so',
  redisOptions,
  async (t) => {
    const { visitors, redis } = await startConsoleBench(t, { store: 'redis' })
    if (redis === null) return t.fail('it has no Redis')
    const ask = async ({ method, path }: { method: string; path: string }) => {
      const filled = path.replaceAll(/:\w+/g, (name) => NAMES[name] ?? 'x')
      const told = await visitors.operator.ask(
        method,
        filled.replace('/console/api/', ''),
        method === 'GET' ? undefined : {},
      )
      return { method, path, told }
    }
    process.kill(redis.pid, 'SIGSTOP')
    try {
      const rest = consoleEndpoints().filter(
        ({ method, path }) => !(method === 'POST' && path.endsWith('/session')) && !path.includes('/sign-in'),
      )
      const answers = await Promise.all(rest.map(ask))
      t.ok(answers.length > 40)
      for (const { method, path, told } of answers) t.match(told, AWAY, `${method} ${path}`)
    } finally {
      process.kill(redis.pid, 'SIGCONT')
    }
    t.ok(await isBack(visitors.operator), 'the session is not over for it')
  },
)

t.test('while the file of the state cannot be written, changes say so and are not made', async (t) => {
  const { visitors, larkway } = await startConsoleBench(t)
  const { operator } = visitors
  const fields = { entries: [{ provider: 'acme', model: 'm', capabilities: ['text'] }] }
  const changes: readonly (readonly [string, string, object?])[] = [
    ['PUT', 'workspaces/acme/content', { shown: true }],
    ['PUT', 'workspaces/acme/purposes/notes', {}],
    ['PUT', 'workspaces/acme/apps/mobile', { route: 'acme' }],
    ['PUT', 'workspaces/acme/routes/acme.voice/draft', { fields, revision: null }],
    ['PUT', 'workspaces/acme/providers/acme.dg', { kind: 'deepgram', credential: 'sk-0123456789' }],
    ['PUT', 'workspaces/acme/audio-url-domains', { domains: ['a.example.com'] }],
    ['PUT', 'workspaces/acme/webhook', { url: 'https://hooks.example.com/x' }],
    ['PUT', 'workspaces/fresh', {}],
    ['POST', 'workspaces/acme/credits', { amount_usd: 1, grant_id: 'one' }],
    ['POST', 'workspaces/acme/keys', { name: 'one', app: 'web' }],
    ['POST', 'workspaces/acme/playground-key', { app: 'web' }],
    ['DELETE', 'session'],
  ]
  const looks = [
    'session',
    'workspaces',
    'workspaces/acme/routes',
    'workspaces/acme/models',
    'overview',
    'audit',
  ]
  const other = new DatabaseSync(join(larkway.dataFolder, 'state.sqlite'))
  other.exec('BEGIN IMMEDIATE')
  try {
    const told = await Promise.all(changes.map((change) => operator.ask(...change)))
    for (const [index, [method, path]] of changes.entries()) t.match(told[index], AWAY, `${method} ${path}`)
    const shown: Told[] = []
    for (const path of looks) shown.push(await operator.get(path))
    for (const [index, path] of looks.entries()) {
      // A look that comes together with a write, be it one that nobody asked for, waits with it in vain.
      const told = shown[index]
      t.ok(
        told?.status === 200 || (told?.status === 503 && told.text.includes('DEPENDENCY_UNAVAILABLE')),
        `GET ${path}`,
      )
    }
  } finally {
    other.exec('ROLLBACK')
    other.close()
  }
  t.ok(await isBack(operator))
  t.match((await operator.get('audit')).body, { lines: [] })
  t.match((await operator.get('workspaces/acme')).body, {
    content_shown: false,
    apps: [{ id: 'back' }, { id: 'web' }],
  })
})
