/// SQL for deltas: `{"$add":n}` in place of a column's value adds `n` to it.
package enum Delta {
    /// The beginning of a delta in JSON without white space; no string contains it, as JSON escapes quotation marks.
    package static let prefix = #"{"$add":"#

    /// The reason why a table refuses a delta, in words.
    package static let failure = "adding gives no integer that fits"

    /// Returns the condition that a row of `json_each` is a delta.
    package static func isDelta(_ attribute: String) -> String {
        // Other values than objects are not even rendered.
        "(\(attribute).type = 'object' AND substr(\(attribute).value, 1, \(prefix.count)) = '\(prefix)')"
    }

    /// Returns the condition that a JSON object of columns has a delta.
    package static func has(_ attributes: String) -> String { "(instr(\(attributes), '\(prefix)') > 0)" }

    /// Returns the condition that a JSON object of columns has deltas only.
    package static func hasOnly(_ attributes: String) -> String {
        """
        (\(has(attributes)) AND NOT EXISTS (
            SELECT 1 FROM json_each(\(attributes)) AS change_member WHERE NOT \(isDelta("change_member"))))
        """
    }

    /// Returns SQL for the number in a delta, given as JSON.
    package static func number(_ json: String) -> String { "(\(json) ->> '$.\"$add\"')" }

    /// Returns the number in a delta, given as JSON without white space; nil for another value.
    package static func number(json: String) -> Int64? {
        json.hasPrefix(prefix) ? Int64(json.dropFirst(prefix.count).dropLast()) : nil
    }
}
