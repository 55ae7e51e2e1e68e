import { systemClock } from '../contracts/time.ts'
import { BackupError, backUp, type Manifest, restore as restoreTo } from '../gateway/node/backup.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { actions, type CliContext, EXIT_HELP, environmentOf, STATE_HELP, withState } from './context.ts'

const BACKUP_USAGE = `larkway backup FOLDER

Copies the data folder of a node, which may run meanwhile, into a new folder: the state as it is at one moment, the
objects that it needs then, the keys that it is sealed with, and the records of usage. Keep it as safe as the data
folder itself. With Redis, back up Redis and the bucket instead: docs/operations.md says in which order.

The command works on LARKWAY_DATA (default: ./data).

${EXIT_HELP}
`

const RESTORE_USAGE = `larkway restore FOLDER

Makes a data folder out of a backup, comparing every file with what was written. The data folder has to be empty, or to
have an earlier restore in it that did not come to its end.

The command works on LARKWAY_DATA (default: ./data).

${EXIT_HELP}
`

const STATE_USAGE = `larkway state <action>

What Redis held, should it have lost that.

  accept-loss          go on with a Redis that has lost everything: grants of credits and trials begin anew, and what
                       was spent is forgotten. Refused where no node misses anything

Restore a backup instead if there is one: nodes notice that by themselves, and nothing needs to be accepted. Until
either is done, calls on credits or a trial are refused.

${STATE_HELP}

${EXIT_HELP}
`

/** `larkway backup`. @returns the exit code @throws UsageError, CommandFailure */
export function backup(args: readonly string[], context: CliContext): Promise<number> {
  return run(args, context, BACKUP_USAGE, (target, { LARKWAY_DATA: folder, S3_BUCKET: bucket }) => {
    const options = { hasObjects: bucket === undefined, nowMs: systemClock.wallNow() }
    return backUp(folder, target, options)
  })
}

/** `larkway restore`. @returns the exit code @throws UsageError, CommandFailure */
export function restore(args: readonly string[], context: CliContext): Promise<number> {
  return run(args, context, RESTORE_USAGE, (source, { LARKWAY_DATA: folder }) => restoreTo(source, folder))
}

/** `larkway state`. @throws UsageError, CommandFailure */
export const state = actions('state', STATE_USAGE, { 'accept-loss': acceptLoss })

async function acceptLoss(args: readonly string[], context: CliContext): Promise<void> {
  parse(args, {}, 0)
  const accepted = await withState(environmentOf(context), async ({ memory }) => {
    if (memory === null) throw new CommandFailure('the state is a file, which is lost with its data folder')
    return memory.acceptLoss()
  })
  if (accepted === null) throw new CommandFailure('no node misses anything: there is no loss to accept')
  context.print(`accepted the loss of ${accepted}: nodes go on within seconds, and book grants again\n`)
}

async function run(
  args: readonly string[],
  context: CliContext,
  usage: string,
  work: (folder: string, environment: ReturnType<typeof environmentOf>) => Promise<Manifest>,
): Promise<number> {
  const { values, positionals } = parse(args, { help: { type: 'boolean' } }, 1)
  if (values.help === true) {
    context.print(usage)
    return 0
  }
  const [folder] = positionals
  if (folder === undefined) throw new UsageError('name a folder; see --help')
  const environment = environmentOf(context)
  if (environment.REDIS_URL !== undefined)
    throw new CommandFailure('the state is in Redis: docs/operations.md says how that is backed up')
  try {
    const { files, version, created_at: made } = await work(folder, environment)
    const mib = files.reduce((sum, { bytes }) => sum + bytes, 0) / 1024 ** 2
    context.print(`${files.length} files, ${mib.toFixed(1)} MiB, of ${made}, by Larkway ${version}\n`)
    return 0
  } catch (error) {
    throw error instanceof BackupError ? new CommandFailure(error.message) : error
  }
}
