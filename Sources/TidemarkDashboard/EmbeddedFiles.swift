extension WebPages {
    /// The files of the folder `Pages`, which the build compiles into the program.
    static let embeddedFiles = [
        File(name: "app.js", content: PackageResources.app_js),
        File(name: "conflicts.js", content: PackageResources.conflicts_js),
        File(name: "devices.js", content: PackageResources.devices_js),
        File(name: "dom.js", content: PackageResources.dom_js),
        File(name: "health.js", content: PackageResources.health_js),
        File(name: "index.html", content: PackageResources.index_html),
        File(name: "live.js", content: PackageResources.live_js),
        File(name: "metrics.js", content: PackageResources.metrics_js),
        File(name: "overview.js", content: PackageResources.overview_js),
        File(name: "record.js", content: PackageResources.record_js),
        File(name: "revisions.js", content: PackageResources.revisions_js),
        File(name: "route.js", content: PackageResources.route_js),
        File(name: "schema.js", content: PackageResources.schema_js),
        File(name: "spark.js", content: PackageResources.spark_js),
        File(name: "style.css", content: PackageResources.style_css),
        File(name: "tables.js", content: PackageResources.tables_js),
        File(name: "tidemark.js", content: PackageResources.tidemark_js),
    ]
}
