import type { ConsoleState, NodeSample, RequestRecord } from '../../schema/console.ts'
import { parseInTurns } from '../parse-in-turns.ts'
import type { Runner } from './operations.ts'

/** What the console keeps, as whoever asks for it sees it. */
export function consoleStateOf(runner: Runner): ConsoleState {
  return {
    sessions: {
      begin: (session, ttlMs) => runner.call('beginSession', session, ttlMs),
      find: (id) => runner.call('findSession', id),
      end: (id) => runner.call('endSession', id),
    },
    requests: {
      async add(token, records) {
        if (records.length === 0) return
        const workspaces = [...new Set(records.map(({ workspace }) => workspace))]
        await runner.call('addRequests', token, workspaces, JSON.stringify(records))
      },
      async list(filter) {
        const records = await runner.call('listRequests', filter)
        return records.map((record) => JSON.parse(record) as RequestRecord)
      },
      async get(workspace, recordId) {
        const record = await runner.call('getRequest', workspace, recordId)
        return record === null ? null : (JSON.parse(record) as RequestRecord)
      },
    },
    samples: {
      add: ({ node, atMs, ...rest }, keepMs) =>
        runner.call('addSample', { node, atMs }, keepMs, JSON.stringify({ node, atMs, ...rest })),
      since: async (atMs) => parseInTurns<NodeSample>(await runner.call('samplesSince', atMs)),
    },
    keyUses: {
      note: (uses) => runner.call('noteKeyUses', uses),
      read: (keyIds) => runner.call('readKeyUses', keyIds),
    },
  }
}
