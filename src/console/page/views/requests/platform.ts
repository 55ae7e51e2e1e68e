import { PageHead } from '../../components/page-head.ts'
import { h } from '../../h.ts'
import type { ViewProps } from '../../view.ts'
import { Log } from './log.ts'
import { FoundInLog, OneRecord } from './one-record.ts'

/** The log of all workspaces, for operators; or one record of it. */
export function PlatformRequestsView({ path, query }: ViewProps) {
  const [id, record] = path
  const search = query.toString() === '' ? '' : `?${query.toString()}`
  const common = { workspace: null, search }
  if (id === 'log' && record !== undefined) return h(OneRecord, { key: record, ...common, id: record })
  if (id !== undefined) return h(FoundInLog, { key: id, ...common, id })
  return [
    h(PageHead, {
      title: 'Platform requests',
      lead: 'Every call, job and live session of all workspaces. Bodies and transcripts are not stored.',
    }),
    h(Log, common),
  ]
}
