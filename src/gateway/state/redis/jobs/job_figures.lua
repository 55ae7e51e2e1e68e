-- Counts the jobs of a partition that wait, and those that have ended.
--
-- KEYS partition never
-- Reply {waiting, ended}: each waiting as {kind, mode, ready, delayed, oldest_ms}, each ended as {kind, status, jobs}
--
-- `oldest_ms` is for how long the first of the ready ones has been ready. What was lost, and stands in front for that
-- reason, is taken off the list.

local LOST_MAX = 100

-- Since when the first has been ready; nil: none is.
local function first_ms(list)
  for _ = 1, LOST_MAX do
    local first = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) > now_ms then return nil end
    if exists(key('job', first[1])) then return tonumber(first[2]) end
    redis.call('ZREM', list, first[1])
  end
end

local waiting, ended = {}, {}
for _, kind in ipairs(KINDS) do
  for _, mode in ipairs(MODES) do
    local list = waiting_list(kind, mode)
    local oldest_ms = first_ms(list)
    local all, ready = redis.call('ZCARD', list), redis.call('ZCOUNT', list, '-inf', digits(now_ms))
    if all > 0 then
      table.insert(waiting, { kind, mode, ready, all - ready, oldest_ms and now_ms - oldest_ms or 0 })
    end
  end
  for _, status in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    local jobs = tonumber(redis.call('HGET', partition, ended_field(kind, status)))
    if jobs then table.insert(ended, { kind, status, jobs }) end
  end
end
return { waiting, ended }
