import t from 'tap'
import { EXAMPLE } from '../support/catalog-file.ts'
import { startSqliteBench } from '../support/cli-state.ts'

/** Single sign-on whose address the servers have in their environment, and whose client has a secret. */
const CONSOLE = `
console:
  oidc:
    issuer: https://login.example
    client_id: larkway
    client_secret: \${OIDC_SECRET}
    roles: [{group: ops, role: operator}]
`

function alertsWith(secret: string): string {
  return `
alerts:
  webhook: {url: "https://hooks.example/larkway", secret: "${secret}"}
  rules: {credits: {budget: {share: 0.8}}}
`
}

t.test('commands take every configuration that servers take, without its secrets', async (t) => {
  for (const secret of [`\${ALERT_SECRET}`, 'file:/run/secrets/alerts']) {
    const { run } = await startSqliteBench(t, EXAMPLE + CONSOLE + alertsWith(secret))
    const commands = [
      ['key', 'create', '--workspace', 'acme', '--app', 'web'],
      ['key', 'list'],
      ['credits', 'show'],
      ['credits', 'add', '--workspace', 'acme', '--usd', '1'],
      ['export'],
      ['route', 'explain', '--key', 'key_web', '--endpoint', 'transcription'],
    ]
    for (const command of commands) {
      const { code, errors } = await run(command)
      t.same({ code, errors }, { code: 0, errors: '' }, `${command.join(' ')} with ${secret}`)
    }
  }
  const { run } = await startSqliteBench(t, EXAMPLE + alertsWith('whsec_inline'))
  t.match(await run(['credits', 'show']), { code: 1, output: /secret: must be a reference/ })
})
