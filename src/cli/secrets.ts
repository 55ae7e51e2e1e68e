import { makeSecretKey, readSecretKeys } from '../contracts/secrets.ts'
import { formerKeysEndMs, resealSecrets } from '../gateway/admin/secrets.ts'
import { CommandFailure, parse, rfc3339 } from './arguments.ts'
import type { CliContext } from './context.ts'
import { actions, CONFIG_HELP, EXIT_HELP, environmentOf, STATE_HELP, withAdmin } from './context.ts'

const USAGE = `larkway secrets <action>

The keys that seal what is kept: LARKWAY_SECRET_KEYS, else those in the file secret-key of the data folder. To replace
a key, put a new one in front of it, restart every node with both, and rotate.

  make                 print a new key
  rotate [--config FILE]
                       seal provider credentials and webhook secrets with the first key, and tell when the others may
                       go; the exit code is 1 when no key opens one of them

  ${CONFIG_HELP}

${STATE_HELP}

${EXIT_HELP}
`

/** `larkway secrets`: the keys that seal. @throws UsageError, CommandFailure */
export const secrets = actions('secrets', USAGE, {
  async make(args, { print }) {
    parse(args, {}, 0)
    print(`${makeSecretKey()}\n`)
  },
  rotate,
})

async function rotate(args: readonly string[], context: CliContext): Promise<number> {
  const { config } = parse(args, { config: { type: 'string' } }, 0).values
  const { LARKWAY_SECRET_KEYS, LARKWAY_DATA } = environmentOf(context)
  const keys = await readSecretKeys(LARKWAY_SECRET_KEYS, LARKWAY_DATA)
  if (keys.length === 1)
    throw new CommandFailure('there is one key: put a new one in front of it, and restart every node, first')
  return withAdmin(context, { command: 'secrets rotate', config }, async ({ actor, admin }) => {
    const own = { ...admin, webhooks: { ...admin.webhooks, secretKeys: keys } }
    const { done, kept, lost } = await resealSecrets(actor, own)
    for (const name of done) context.print(`${name}: sealed with the first key now\n`)
    for (const name of lost) context.print(`${name}: no key opens it; set it again\n`)
    context.print(`${done.length} sealed, ${kept.length} were before, ${lost.length} lost\n`)
    const until = rfc3339(await formerKeysEndMs(admin))
    const apps = [...(await admin.catalog()).current().apps.values()].flatMap((all) => [...all.values()])
    const hashes = apps.some(({ workspace }) => workspace.endUsers?.isHashed === true)
    context.print(`Jobs, uploads, sign-ins and signed URLs need the other keys until ${until}.\n`)
    if (hashes) context.print('Keep the last key for good: the ids of end users are hashed with it.\n')
    return lost.length === 0 ? 0 : 1
  })
}
