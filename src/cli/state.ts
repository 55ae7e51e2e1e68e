import { existsSync } from 'node:fs'
import type { Environment } from '../config.ts'
import { GatewayError } from '../errors.ts'
import { createLogger } from '../log.ts'
import type { State } from '../schema/state.ts'
import { openState } from '../stores.ts'
import { CommandFailure } from './arguments.ts'

type Place = Pick<Environment, 'REDIS_URL' | 'LARKWAY_DATA'>

/**
 * Does something with the state of the servers that have the same environment: that of Redis, else the file of the data
 * folder. A server may run meanwhile.
 *
 * @throws CommandFailure when the state cannot be opened, or does not answer
 */
export async function withState<Result>(
  place: Place,
  work: (state: State) => Promise<Result>,
): Promise<Result> {
  const state = await open(place)
  try {
    return await work(state)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    const what = error.code === 'DEPENDENCY_UNAVAILABLE' ? 'does not answer' : 'failed'
    const { cause } = error
    throw new CommandFailure(`${nameOf(state)} ${what}${cause instanceof Error ? `: ${cause.message}` : ''}`)
  } finally {
    await state.close()
  }
}

async function open(place: Place): Promise<State> {
  const { REDIS_URL, LARKWAY_DATA } = place
  if (REDIS_URL === undefined && !existsSync(LARKWAY_DATA))
    throw new CommandFailure(
      `there is no data folder ${LARKWAY_DATA}; LARKWAY_DATA names that of the server, which makes it when it starts`,
    )
  try {
    // The log would stand between the lines of the command.
    return await openState(place, createLogger('silent'))
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  }
}

function nameOf({ kind }: State): string {
  return kind === 'redis' ? 'Redis' : 'the state'
}
