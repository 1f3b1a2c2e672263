/// PostgreSQL functions for canonical JSON, byte for byte equal to the SQLite side.
enum JSONFunctions {
    static let sql = """
        CREATE OR REPLACE FUNCTION tidemark.escape(value text) RETURNS text
        LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            code int;
        BEGIN
            value := replace(replace(value, '\\', '\\\\'), '"', '\\"');
            IF value ~ '[\\x01-\\x1f]' THEN
                FOR code IN 1..31 LOOP
                    value := replace(value, chr(code), '\\u00' || lpad(to_hex(code), 2, '0'));
                END LOOP;
            END IF;
            RETURN '"' || value || '"';
        END $$;

        CREATE OR REPLACE FUNCTION tidemark.quote(value text) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT CASE
                WHEN value IS NULL THEN 'null'
                WHEN value !~ '[\\x01-\\x1f"\\\\]' THEN '"' || value || '"'
                ELSE tidemark.escape(value) END
        $$;

        CREATE OR REPLACE FUNCTION tidemark.pointed(digits text) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT CASE WHEN digits ~ '[.e]' THEN digits ELSE digits || '.0' END
        $$;

        CREATE OR REPLACE FUNCTION tidemark.real(value double precision) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT CASE
                WHEN value IS NULL OR value = 'NaN' THEN 'null'
                WHEN value = 'Infinity' THEN '{"$real":"Infinity"}'
                WHEN value = '-Infinity' THEN '{"$real":"-Infinity"}'
                -- SQLite keeps no sign of a zero in a REAL column.
                WHEN value = 0 THEN '0.0'
                WHEN abs(value) BETWEEN 1e15 AND 9007199254740992 THEN tidemark.pointed(value::text::numeric::text)
                ELSE tidemark.pointed(value::text) END
        $$;

        CREATE OR REPLACE FUNCTION tidemark.real(value real) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT tidemark.real(value::text::double precision)
        $$;

        CREATE OR REPLACE FUNCTION tidemark.mixed(value text) RETURNS text
        LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            trimmed text := btrim(value, E' \\t\\n\\x0b\\f\\r');
            exact numeric;
            near double precision;
        BEGIN
            IF trimmed IS NULL OR trimmed !~ '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$' THEN
                RETURN tidemark.quote(value);
            END IF;
            exact := trimmed::numeric;
            IF trimmed !~ '[.eE]' AND exact BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN exact::bigint::text;
            ELSIF abs(exact) > 1.7976931348623157e308 THEN
                RETURN '{"$real":"' || CASE WHEN exact < 0 THEN '-' ELSE '' END || 'Infinity"}';
            ELSIF abs(exact) < 2.5e-324 THEN
                RETURN '0';
            END IF;
            near := exact::double precision;
            IF near = trunc(near) AND abs(near) < 9223372036854775807 THEN
                RETURN near::bigint::text;
            END IF;
            RETURN tidemark.real(near);
        END $$;

        CREATE OR REPLACE FUNCTION tidemark.bytes(value bytea) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT coalesce('{"$blob":"' || translate(encode(value, 'base64'), E'\\n', '') || '"}', 'null')
        $$;

        -- The functions for the forms of values on devices.
        CREATE OR REPLACE FUNCTION tidemark.number(value numeric) RETURNS text
        LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        BEGIN
            IF value IS NULL THEN
                RETURN 'null';
            ELSIF value IN ('NaN', 'Infinity', '-Infinity') THEN
                RETURN '"' || value || '"';
            ELSIF value = trunc(value) AND value BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN trunc(value)::bigint::text;
            ELSIF abs(value) BETWEEN 1e-300 AND 1e300 AND value::double precision::text::numeric = value THEN
                RETURN tidemark.real(value::double precision);
            END IF;
            -- SQLite would round the digits; it leaves a text that is no number alone.
            RETURN '"' || value || '::numeric"';
        END $$;

        CREATE OR REPLACE FUNCTION tidemark.microseconds(value interval) RETURNS text
        LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
        DECLARE
            exact numeric;
        BEGIN
            IF value IS NULL THEN
                RETURN 'null';
            ELSIF extract(year FROM value) <> 0 OR extract(month FROM value) <> 0 THEN
                RETURN tidemark.quote(value::text);
            END IF;
            exact := trunc(extract(epoch FROM value) * 1000000);
            IF exact BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                RETURN exact::bigint::text;
            END IF;
            RETURN tidemark.quote(value::text);
        END $$;

        CREATE OR REPLACE FUNCTION tidemark.fraction(value text, is_long boolean) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT CASE
                WHEN value ~ '[.]' THEN regexp_replace(value, '[.]([0-9]+)',
                    '.' || rpad(substring(value FROM '[.]([0-9]+)'), 6, '0'))
                WHEN is_long THEN regexp_replace(value, '(:[0-9]{2}:[0-9]{2})', '\\1.000000')
                ELSE value END
        $$;

        CREATE OR REPLACE FUNCTION tidemark.moment(value timestamp, is_long boolean) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT tidemark.fraction(value::text, is_long)
        $$;

        CREATE OR REPLACE FUNCTION tidemark.moment(value timestamptz, is_long boolean) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT tidemark.fraction((value AT TIME ZONE 'UTC')::text, is_long)
        $$;

        CREATE OR REPLACE FUNCTION tidemark.moment(value time, is_long boolean) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT tidemark.fraction(value::text, is_long)
        $$;
        """
}
