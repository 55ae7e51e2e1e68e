import { systemClock } from '../contracts/time.ts'
import { BackupError, backUp, type Manifest, restore as restoreTo } from '../gateway/node/backup.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { type CliContext, EXIT_HELP, environmentOf } from './context.ts'

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
