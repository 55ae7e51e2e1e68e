-- Runs in front of the scripts of the newest requests of a workspace.
--
-- Each day (UTC, by this clock) has a stream of its own: the key of all of them, a colon, and the number of the day since
-- 1970. Its entries are in the order in which they came. It goes by itself when the first of them is KEEP_DAYS old, so
-- that nothing is kept longer, also when nothing is added any more.

local KEEP_DAYS = 7
local DAY_MS = 86400000

local time = redis.call('TIME')
local today = math.floor(time[1] / 86400)

local function stream_of(requests, day) return requests .. ':' .. string.format('%.0f', day) end

-- From today back.
local function streams_of(requests)
  local streams = {}
  for back = 0, KEEP_DAYS - 1 do streams[back + 1] = stream_of(requests, today - back) end
  return streams
end

-- Calls `each` with the fields of entries, the last one first, until it returns true.
local function walk_back(requests, each)
  for _, stream in ipairs(streams_of(requests)) do
    local before = '+'
    repeat
      local entries = redis.call('XREVRANGE', stream, before, '-', 'COUNT', 100)
      for _, entry in ipairs(entries) do
        if each(entry[2]) then return end
        before = '(' .. entry[1]
      end
    until #entries < 100
  end
end
