import t from 'tap'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { SURROUNDINGS } from '../../support/catalog-file.ts'

const EMPTY = { providers: {}, routes: {}, workspaces: {} }
const OPERATOR = { group: 'ops', role: 'operator' }
const OIDC = {
  issuer: 'https://id.example/realms/x',
  client_id: 'larkway',
  client_secret: '${' + 'SECRET}',
  roles: [OPERATOR],
}

const read = (console: unknown, env: Record<string, string> = { SECRET: 'secret' }) =>
  buildSnapshot({ ...EMPTY, ...(console === undefined ? {} : { console }) }, { ...SURROUNDINGS, env })

t.test('without a word about it, keys sign in and nobody else', async (t) => {
  for (const fields of [undefined, {}])
    t.match(read(fields), { signIn: { keys: true, sessionMs: 43_200_000, idleMs: 7_200_000, oidc: null } })
})

t.test('what a configuration says of single sign-on is served, with what it does not say', async (t) => {
  const whole = {
    public_url: 'https://Gateway.example:8443',
    key_sign_in: false,
    session_seconds: 3600,
    session_idle_seconds: 600,
    oidc: {
      ...OIDC,
      session_seconds: 900,
      roles: [OPERATOR, { email: 'Ada@Example.com', role: 'admin', workspaces: ['acme'] }],
    },
  }
  t.match(read(whole), {
    signIn: {
      keys: false,
      sessionMs: 3_600_000,
      idleMs: 600_000,
      oidc: {
        name: 'single sign-on',
        issuer: 'https://id.example/realms/x',
        clientId: 'larkway',
        clientSecret: 'secret',
        publicUrl: 'https://gateway.example:8443',
        scopes: ['openid', 'profile', 'email'],
        groupsClaim: 'groups',
        nameClaim: 'email',
        grants: [
          { to: { group: 'ops' }, role: 'operator', workspaces: [] },
          { to: { email: 'ada@example.com' }, role: 'admin', workspaces: ['acme'] },
        ],
        sessionMs: 900_000,
        issuerLogout: true,
      },
    },
  })
  const { client_secret: _, ...open } = OIDC
  const env = { LARKWAY_PUBLIC_URL: 'http://localhost:8080' }
  t.match(read({ oidc: open }, env), {
    signIn: { oidc: { publicUrl: 'http://localhost:8080', clientSecret: null, sessionMs: 43_200_000 } },
  })
})

t.test('what cannot work is refused, with its place', async (t) => {
  const at = { public_url: 'https://gateway.example' }
  const rows: [unknown, RegExp][] = [
    [{ key_sign_in: false }, /^\/console\/key_sign_in: must not be false without a role operator/],
    [
      {
        ...at,
        key_sign_in: false,
        oidc: { ...OIDC, roles: [{ group: 'a', role: 'admin', workspaces: ['b'] }] },
      },
      /^\/console\/key_sign_in: must not be false/,
    ],
    [{ oidc: OIDC }, /^\/console\/public_url: is missing: set it, or LARKWAY_PUBLIC_URL/],
    [{ public_url: 'http://gateway.example', oidc: OIDC }, /^\/console\/public_url: must be an https URL/],
    [{ public_url: 'https://gateway.example/x', oidc: OIDC }, /^\/console\/public_url: .*an origin/],
    [{ ...at, oidc: { ...OIDC, roles: [] } }, /^\/console\/oidc\/roles: /],
    [
      { ...at, oidc: { ...OIDC, issuer: 'http://id.example' } },
      /^\/console\/oidc\/issuer: must be an https URL/,
    ],
    [{ ...at, oidc: { ...OIDC, issuer: 'https://a:b@id.example' } }, /^\/console\/oidc\/issuer: /],
    [{ ...at, oidc: { ...OIDC, issuer: 'id.example' } }, /^\/console\/oidc\/issuer: /],
    [{ ...at, oidc: { ...OIDC, client_secret: 'hunter2' } }, /^\/console\/oidc\/client_secret: .*reference/],
    [{ ...at, oidc: { ...OIDC, client_secret: '${' + 'OTHER}' } }, /OTHER is not set/],
    [{ ...at, oidc: { ...OIDC, client_secret: 'sealed:x' } }, /^\/console\/oidc\/client_secret: /],
    [{ ...at, oidc: { ...OIDC, scopes: ['profile'] } }, /^\/console\/oidc\/scopes: must have openid/],
    [{ ...at, oidc: { ...OIDC, scopes: ['openid', 'a b'] } }, /^\/console\/oidc\/scopes\/1: /],
    [
      { ...at, oidc: { ...OIDC, roles: [{ role: 'operator' }] } },
      /\/roles\/0: must have either group or email/,
    ],
    [
      { ...at, oidc: { ...OIDC, roles: [{ ...OPERATOR, email: 'a@b.example' }] } },
      /\/roles\/0: must have either group or email/,
    ],
    [
      { ...at, oidc: { ...OIDC, roles: [{ ...OPERATOR, workspaces: ['a'] }] } },
      /workspaces: must be left out/,
    ],
    [{ ...at, oidc: { ...OIDC, roles: [{ group: 'a', role: 'admin' }] } }, /workspaces: is missing/],
    [{ ...at, oidc: { ...OIDC, role: [] } }, /^\/console\/oidc\/role: is not a known key/],
    [{ session_seconds: 5 }, /^\/console\/session_seconds: /],
  ]
  for (const [fields, issue] of rows) {
    const reading = read(fields)
    const issues = 'issues' in reading ? reading.issues : ['none']
    t.ok(
      issues.some((line) => issue.test(line)),
      `${issue}: ${issues.join('; ')}`,
    )
    t.notOk(
      issues.some((line) => /hunter2|secret"/.test(line)),
      'no secret is repeated',
    )
  }
})
