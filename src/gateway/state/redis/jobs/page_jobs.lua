-- Shows transcription jobs of an app in the order of their ids.
--
-- KEYS partition never
-- ARGV workspace app statuses after before from limit
-- Reply {next, job, …}: each job as {status, ended, error, erased, spec}, empty what is not there; `next` is the last id
-- that was looked at, empty when there is nothing behind it
--
-- `statuses` are words between spaces; none: any. An empty `after` or `before` is no bound. Who asks for some statuses
-- only has so many jobs looked at, whether or not they have one of these, because others wait.

local SEEN_MAX = 1000

local list, statuses, limit = app_list(ARGV[1], ARGV[2]), ARGV[3], tonumber(ARGV[7])
local most = statuses == '' and limit or SEEN_MAX
local low = ARGV[4] == '' and '-' or '(' .. ARGV[4]
local high = ARGV[5] == '' and '+' or '(' .. ARGV[5]

local ids
if ARGV[6] == 'newest' then
  ids = redis.call('ZREVRANGEBYLEX', list, high, low, 'LIMIT', 0, most + 1)
else
  ids = redis.call('ZRANGEBYLEX', list, low, high, 'LIMIT', 0, most + 1)
end

local jobs, seen = { '' }, 0
while seen < math.min(#ids, most) and #jobs <= limit do
  seen = seen + 1
  local name = key('job', ids[seen])
  local status, marked, expires = unpack(redis.call('HMGET', name, 'status', 'marked', 'expires'))
  if not status then
    redis.call('ZREM', list, ids[seen])
  elseif not is_gone({ is_marked = marked, expires = expires })
    and (statuses == '' or string.find(statuses, ' ' .. status .. ' ', 1, true)) then
    local fields = redis.call('HMGET', name, 'status', 'ended', 'error', 'erased', 'spec')
    for i = 1, 5 do fields[i] = fields[i] or '' end
    table.insert(jobs, fields)
  end
end
if seen < #ids then jobs[1] = ids[seen] end
return jobs
